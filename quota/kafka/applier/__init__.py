"""The applier, which carries out admitted mutations, each once."""
