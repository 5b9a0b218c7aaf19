penstock run live.yaml 2> log > ready &
sleep 1
