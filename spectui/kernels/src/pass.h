// The computing of a backend: all operations of a graph in one team of threads. Its memory is kept between graphs.
#pragma once
#include "plugin.h"

struct Pass;

Pass * new_pass();
void delete_pass(Pass * pass);
void set_threads(Pass * pass, int n);
void set_abort(Pass * pass, bool (*asked)(void *), void * data);
int compute(Pass * pass, ggml_graph * graph);   // a status
