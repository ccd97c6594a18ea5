package profile

// Source gives the profiles as they are at the moment; *[Set] and *[Live] are some. Steps ask anew at each attempt.
type Source interface {
	Get(id string) (*Profile, bool) // "" is the built-in one
	IDs() []string
}
