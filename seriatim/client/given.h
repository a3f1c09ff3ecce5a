/* An awaitable that is done: `async for` takes its value without a coroutine or an exception.

   With am_send (CPython 3.10 and later), the interpreter gets the value as a return. A Cython class
   would have to raise StopIteration, and would make a traceback for each. */
#ifndef SERIATIM_CLIENT_GIVEN_H
#define SERIATIM_CLIENT_GIVEN_H

#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *value; /* NULL: it was taken */
} given_object;

static PyObject *given_await(PyObject *self) { return Py_NewRef(self); }

static PyObject *given_take(PyObject *self) {
    PyObject *value = ((given_object *)self)->value;
    ((given_object *)self)->value = NULL;
    if (value == NULL) PyErr_SetString(PyExc_RuntimeError, "this was awaited before");
    return value;
}

static PySendResult given_send(PyObject *self, PyObject *Py_UNUSED(sent), PyObject **result) {
    *result = given_take(self);
    return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
}

static PyObject *given_next(PyObject *self) {
    PyObject *value = given_take(self);
    if (value != NULL) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
        Py_DECREF(value);
        if (stop != NULL) {
            PyErr_SetObject(PyExc_StopIteration, stop);
            Py_DECREF(stop);
        }
    }
    return NULL;
}

static void given_dealloc(PyObject *self) {
    Py_CLEAR(((given_object *)self)->value);
    Py_TYPE(self)->tp_free(self);
}

static PyAsyncMethods given_async = {.am_await = given_await, .am_send = given_send};

static PyTypeObject given_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "seriatim.client.stepping.Given",
    .tp_basicsize = sizeof(given_object),
    .tp_dealloc = given_dealloc,
    .tp_as_async = &given_async,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_iter = given_await,
    .tp_iternext = given_next,
};

/* `spare` is used again if nobody else has it. Returns a new reference, NULL with an error. */
static PyObject *given_of(PyObject *value, PyObject *spare) {
    given_object *made;
    if (Py_IS_TYPE(spare, &given_type) && Py_REFCNT(spare) == 1) {
        made = (given_object *)Py_NewRef(spare);
        Py_XSETREF(made->value, Py_NewRef(value));
        return (PyObject *)made;
    }
    if (!(given_type.tp_flags & Py_TPFLAGS_READY) && PyType_Ready(&given_type) < 0) return NULL;
    made = PyObject_New(given_object, &given_type);
    if (made != NULL) made->value = Py_NewRef(value);
    return (PyObject *)made;
}

#endif
