"""The methods that are compared: which loss, and which trajectories it pulls together and pushes apart."""
