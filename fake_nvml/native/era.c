/* Constants that differ between the libraries of two eras: build.py compiles this file for each, with ERA, RELEASE and CUDA. */
#include "session.h"

const int fakenvml_era = ERA;
const char fakenvml_release[] = RELEASE;
const unsigned fakenvml_cuda = CUDA;
