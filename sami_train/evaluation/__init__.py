"""How good a policy is: by task, by set of tasks, and behind gaps to reality."""
