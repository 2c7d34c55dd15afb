"""The learnt prior of the couplings: a scale mixture for each order, and the posterior that it makes."""
