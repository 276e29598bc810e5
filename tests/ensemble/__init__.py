"""The client against a real ZooKeeper: standalone, and an ensemble of three whose leader is being killed."""
