package tes

import "slices"

// Info describes the service: the GA4GH service-info 1.0, with what TES adds.
type Info struct {
	ID            string       `json:"id"`
	Name          string       `json:"name"`
	Type          InfoType     `json:"type"`
	Description   string       `json:"description,omitempty"`
	Organization  Organization `json:"organization"`
	Documentation string       `json:"documentationUrl,omitempty"`
	Version       string       `json:"version"`
	Storage       []string     `json:"storage"`
	Parameters    []string     `json:"tesResources_backend_parameters"`
}

// InfoType names the standard.
type InfoType struct {
	Group    string `json:"group"`
	Artifact string `json:"artifact"`
	Version  string `json:"version"`
}

// Organization runs the service.
type Organization struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Info reports what the service is. url is where it is reached.
func (a *Adapter) Info(version, url string) Info {
	i := Info{
		ID: "org.stagepost.tes", Name: "Stagepost", Type: InfoType{Group: "org.ga4gh", Artifact: "tes",
			Version: "1.1.0"},
		Description: "Tasks run as jobs of services, not in containers. Outputs are downloaded from the URLs in " +
			"their logs.", Organization: Organization{Name: "Stagepost", URL: url},
		Version: version, Storage: []string{}, Parameters: Parameters,
	}
	for _, root := range slices.Concat(a.options.Roots, a.options.Outputs) { // the same directory may be both
		if at := "file://" + root; !slices.Contains(i.Storage, at) {
			i.Storage = append(i.Storage, at)
		}
	}
	return i
}
