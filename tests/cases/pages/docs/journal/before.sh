penstock run door.yaml 2> log > ready & node=$!
sleep 1
penstock pub -i phone -q 1 -t door/unlock -m now
penstock pub -i bell -q 1 -t door/bell -m ring
kill $node; wait $node
