"""The claim under audit, and pairs of laws that attain one."""
