package profile

import "slices"

// All stands for the owners of all user tokens in Submitters and Updaters.
const All = "*"

// Submits reports whether the owner of a user token may submit under the profile.
func (p *Profile) Submits(user string) bool { return named(p.Submitters, user) }

// Updates reports whether the owner of a user token may fetch and update every object of the profile.
func (p *Profile) Updates(user string) bool { return named(p.Updaters, user) }

func named(list []string, user string) bool {
	return slices.Contains(list, user) || slices.Contains(list, All)
}
