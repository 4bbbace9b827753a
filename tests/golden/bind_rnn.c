/* LSTM and GRU. */
#include "golden.h"

const gold_family gold_rnn = {"rnn", NULL, 0, 120, 0};
