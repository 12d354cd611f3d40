"""Local randomisers: each person's report is randomised by itself."""
