"""Price: what each profile costs and gives, measured alone (`kdv price`)."""
