"""The commands of `mutation-quota` and the options that they share."""
