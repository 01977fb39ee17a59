"""From answers to the directions in which training moved a first layer; what images they show is asked elsewhere."""
