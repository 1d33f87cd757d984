"""The paper's modified MuJoCo benchmark (appendix C.2): ten environments, one at a time or many together."""
