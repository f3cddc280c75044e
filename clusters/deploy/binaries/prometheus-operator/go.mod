// The kinds of the Prometheus operator, of which tests take the definitions; nothing of it is built.
module gpushare/deploy/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
