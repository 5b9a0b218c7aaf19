cp examples/smart-home/domain.yaml home.yaml
sed 's/MD_motion/MD_moves/' home.yaml > new.yaml
