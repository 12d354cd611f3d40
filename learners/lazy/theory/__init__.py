"""What the paper prints, lower bounds, rates and exact oracles."""
