cp examples/smart-home/domain.yaml home.yaml
