sed 's/^domain: .*/&\njournal: {folder: journal}/' examples/smart-home/domain.yaml > draft.yaml
penstock run draft.yaml 2> before.log > before.ready & node=$!
sleep 1
penstock pub -p 1884 -i bell -q 1 -t AC_request -m picture
penstock pub -p 1884 -i motion -q 1 -t MD_motion -m '{"person": 0.9}'
sleep 1
kill $node; wait $node
