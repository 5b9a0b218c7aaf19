penstock run plant.yaml 2> log > ready & node=$!
sleep 1
