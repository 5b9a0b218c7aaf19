penstock run plant.yaml 2> log > ready &
sleep 1
