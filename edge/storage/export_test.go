package storage

// PartOf gives the name of a key's file until it is complete.
var PartOf = part
