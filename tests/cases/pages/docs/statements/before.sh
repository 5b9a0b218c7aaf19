penstock run plant.yaml 2> log > ready & node=$!
sleep 1
TOKEN=$(cat "$XDG_RUNTIME_DIR/penstock/127.0.0.1_8080.token")
