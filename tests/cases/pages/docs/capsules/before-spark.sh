echo 'journal: {folder: journal}' >> city.yaml
penstock run city.yaml 2> log > ready &
sleep 1
penstock pub -i sensor -q 1 -t city/rivoli/air -m '{"pm10": 61.5, "precision": 90.0, "sensor": "s1", "at": "2026-05-01T12:00:00Z"}'
penstock pub -i sensor -q 1 -t city/rivoli/air -m '{"pm10": 63.5, "precision": 90.0, "sensor": "s1", "at": "2026-05-01T12:30:00Z"}'
sleep 1
