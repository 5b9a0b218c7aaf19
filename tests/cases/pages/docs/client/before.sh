penstock run 2> log > ready &
sleep 1
