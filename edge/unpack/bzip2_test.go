package unpack

// The standard library writes no bzip2; these are short streams of it, in base64.
const (
	// "hello\n"
	bzipHello = "QlpoOTFBWSZTWcHAgOIAAAFBAAAQAkSgADDNAMNGKZcXckU4UJDBwIDi"
	// d/f.txt
	bzipTar = "QlpoOTFBWSZTWVMV8GUAACxbgMmQQAH3gAAgZ0SeQAgIIABUVqMNEwmCMTGoJSamg0yAPUGmhOBZ8g8QJTxuM4wtQHBNeucqxHuEGVBWaUWoI8GpPHpfZNnZFsnPAPxdyRThQkFMV8GU"
	// ../f.txt
	bzipEvil = "QlpoOTFBWSZTWZNEzPkAABlbgMmQQAH1gABAY0SeQAgIIABUUAAAAGglCho9RpkNBoFXIfIWiBGssCeT3oChVnlys4CXKIUZBqRLPqlJBV1cN8FzwBYHPGP4u5IpwoSEmiZnyA=="
	// 64 MiB of zeros
	bzipBomb = "QlpoOTFBWSZTWQ4J4t8BX45AAMAAAAggADCATUZCoCWpCoCXMUFZJlNZvAS1wwCidcAAwAAACCAAIKQINjKKiE0qKiE4u5IpwoSFALuD6A=="
)
