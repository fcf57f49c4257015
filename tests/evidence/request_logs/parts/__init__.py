"""What clusters are driven with."""
