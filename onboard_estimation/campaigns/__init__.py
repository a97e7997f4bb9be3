"""Many runs: campaigns, searches of parameters, training."""
