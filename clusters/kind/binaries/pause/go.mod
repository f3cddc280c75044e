// The program that holds a pod's namespaces open.
module gpushare/kind/pause

go 1.26.0
