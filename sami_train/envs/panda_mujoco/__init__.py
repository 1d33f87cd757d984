"""The Panda's task in MuJoCo: a second physics for the same signals, tasks and contract."""
