"""One thin module per Lambda function: event in, one call, answer out."""
