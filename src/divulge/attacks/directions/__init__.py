"""In which directions training moved a network's first layer, from what it answers: a span that holds its training data."""
