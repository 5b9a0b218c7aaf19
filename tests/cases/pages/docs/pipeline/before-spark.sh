for node in main edge; do
  penstock token key --node $node --out $node.pem --keys keys.json > /dev/null
done
(umask 077; printf '%s:%s-demo\n' analyst analyst phone phone press press relay relay > passwords)
penstock passwd -U passwords
cp plant.yaml draft.yaml
penstock run plant.yaml 2> log > ready & node=$!
sleep 1
penstock pub -p 1884 -i press -u press -P press-demo -q 1 -t line-1/press -m '{"celsius": 71.5}'
sleep 1
kill $node; wait $node
