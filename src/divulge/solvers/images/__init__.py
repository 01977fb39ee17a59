"""Images from the span of the rows in which training moved a first layer."""
