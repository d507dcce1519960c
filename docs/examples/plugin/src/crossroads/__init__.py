"""An environment and a method for rspo."""
