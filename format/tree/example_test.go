package tree_test

import (
	"fmt"

	"github.com/stagepost/stagepost/format/tree"
)

func ExampleRead() {
	root, err := tree.Read([]byte("name: maps\nstores:\n  - main\n  - copy\n"), tree.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for key, part := range root.All() {
		if part.Kind == tree.Leaf {
			fmt.Printf("%d:%d: %s is %s\n", part.Line, part.Column, key, part.Text)
		}
	}
	_, err = tree.Read([]byte("name: maps\nname: films\n"), tree.Options{Quote: true})
	fmt.Println(err)
	// Output:
	// 1:7: name is maps
	// 3:5: stores.0 is main
	// 4:5: stores.1 is copy
	// 2:1: the key "name" occurs twice
}
