"""One module a target of the fuzzer."""
