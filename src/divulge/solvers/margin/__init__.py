"""Networks trained to their maximal margin, and how far one is from the KKT conditions of that problem."""
