// Empty: with a file in assembler here, Go accepts a function without a body, which nanotime is.
