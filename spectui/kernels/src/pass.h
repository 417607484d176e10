// The computing of a backend: all products and attention of a graph in one team of threads. Its memory is kept between graphs.
#pragma once
#include "plugin.h"

struct Pass;

Pass * new_pass();
void delete_pass(Pass * pass);
void set_threads(Pass * pass, int n);
void compute(Pass * pass, ggml_graph * graph);
