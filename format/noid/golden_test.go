package noid

// golden are names as the first release gave them.
var golden = [3]string{"p9mk21rq7c", "gwhx88jrc8", "7"}
