"""What tests share: each module gives what its name says."""
