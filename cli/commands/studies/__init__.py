"""Commands of the studies: what compares, measures and explains policies beyond training and running one."""
