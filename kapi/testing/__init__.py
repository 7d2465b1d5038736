"""The test kit, public: an API server in memory (``memory_api``) and the request it is asked with (``http``)."""
