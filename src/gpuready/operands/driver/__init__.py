"""The driver container: the one operand whose image is always somebody else's."""
