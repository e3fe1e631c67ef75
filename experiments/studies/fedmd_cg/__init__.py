"""What FedMD-CG's generators make, and whether their classifiers agree with them."""
