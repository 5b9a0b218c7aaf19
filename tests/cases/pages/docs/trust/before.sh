penstock token key --node b1 --out b1.pem --keys keys.json > /dev/null
penstock token key --node b2 --out b2.pem --keys keys.json > /dev/null
(umask 077; printf '%s:%s-demo\n' display display oven oven operator operator > passwords)
penstock passwd -U passwords
cp federation.yaml plant.yaml
penstock run plant.yaml 2> log > ready &
sleep 1
for user in display operator; do
  echo $user-demo | penstock token request --url http://127.0.0.1:8081 --user $user --password-file - --out $user.token
done
