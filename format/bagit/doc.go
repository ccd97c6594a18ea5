// Package bagit writes and checks bags (RFC 8493, BagIt 1.0): a payload below data/ with manifests of its checksums beside it.
//
// A [Writer] makes the tag files of a bag whose payload lies elsewhere, so that a bag can be assembled without copying it. [Validate] checks a bag
// that is a directory, a ZIP or a TAR file: whether it is complete (section 3, all that the manifests name is there, and nothing else in the
// payload) and valid (every checksum is right). Bags as old as 0.93 are read by the rules of their time where they differ.
package bagit
