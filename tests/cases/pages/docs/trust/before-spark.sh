echo oven-demo | penstock token request --url http://127.0.0.1:8082 --user oven --password-file - --out oven.token
penstock sub --token display.token -t 'home/#' -C 1 --rate good > /dev/null &
sleep 1
penstock pub -p 1884 --token oven.token -q 1 -t home/oven -m '{"temperature": 21.5}'
sleep 1
