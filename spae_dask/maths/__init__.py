"""Arrays in, arrays out: linear algebra, column selection and encoders, to be read beside the paper."""
