BEGIN TRANSACTION;
CREATE TABLE alarms (
	id INTEGER NOT NULL, 
	monitor TEXT NOT NULL, 
	since BIGINT NOT NULL, 
	raised BIGINT NOT NULL, 
	ended BIGINT, 
	details TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE clusters (
	bucket BIGINT NOT NULL, 
	slice_id BIGINT NOT NULL, 
	cluster INTEGER NOT NULL, 
	w FLOAT NOT NULL, 
	wx FLOAT NOT NULL, 
	PRIMARY KEY (bucket, slice_id, cluster)
);
INSERT INTO "clusters" VALUES(1789999200,1490262771811190587,4,3.0,1.0);
INSERT INTO "clusters" VALUES(1789999200,1490262771811190587,24,2.0,0.0);
INSERT INTO "clusters" VALUES(1789999200,1490262771811190587,26,1.0,1.0);
CREATE TABLE drawn (
	evaluation_id TEXT NOT NULL, 
	draw_id BIGINT NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (evaluation_id)
);
INSERT INTO "drawn" VALUES('c4ca4238a0b92382-grounded',1,0);
INSERT INTO "drawn" VALUES('c81e728d9d4c2f63-grounded',1,1);
CREATE TABLE draws (
	id INTEGER NOT NULL, 
	"after" BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	pool BIGINT NOT NULL, 
	drawn INTEGER NOT NULL, 
	time BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "draws" VALUES(1,0,4,4,2,1795601823904579138);
CREATE TABLE evaluations (
	id INTEGER NOT NULL, 
	evaluation_id TEXT NOT NULL, 
	run_key BIGINT NOT NULL, 
	slice_id BIGINT NOT NULL, 
	time BIGINT NOT NULL, 
	revision INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	missing BOOLEAN NOT NULL, 
	value FLOAT, 
	x FLOAT, 
	weight FLOAT, 
	label TEXT, 
	explanation TEXT, 
	cost FLOAT, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	duration FLOAT, 
	cluster INTEGER NOT NULL, 
	details TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (evaluation_id)
);
INSERT INTO "evaluations" VALUES(1,'cfcd208495d565ef-grounded',2968255338808904345,1490262771811190587,1790000400000000000,1,'scored','',0,0.0,0.0,2.0,NULL,'explained 0',0.001,10,2,NULL,24,'[{"name":"analyze","prompt":"Is it so?","result":"no","model":"judge-1"}]');
INSERT INTO "evaluations" VALUES(2,'c4ca4238a0b92382-grounded',4416510512999219323,1490262771811190587,1790000400000000000,1,'scored','',0,1.0,1.0,1.0,NULL,'explained 1',0.001,10,2,NULL,4,'[{"name":"analyze","prompt":"Is it so?","result":"no","model":"judge-1"}]');
INSERT INTO "evaluations" VALUES(3,'c81e728d9d4c2f63-grounded',8348648214361683320,1490262771811190587,1790000400000000000,1,'scored','',0,0.0,0.0,2.0,NULL,'explained 2',0.001,10,2,NULL,4,'[{"name":"analyze","prompt":"Is it so?","result":"no","model":"judge-1"}]');
INSERT INTO "evaluations" VALUES(4,'eccbc87e4b5ce2fe-grounded',6552365793442094138,1490262771811190587,1790000400000000000,1,'scored','',0,1.0,1.0,1.0,NULL,'explained 3',0.001,10,2,NULL,26,'[{"name":"analyze","prompt":"Is it so?","result":"no","model":"judge-1"}]');
CREATE TABLE feedback (
	id INTEGER NOT NULL, 
	trace_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value FLOAT NOT NULL, 
	comment TEXT, 
	source TEXT NOT NULL, 
	time BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (trace_id, name, source)
);
INSERT INTO "feedback" VALUES(1,'c4ca4238a0b923820dcc509a6f75849b','feedback',0.0,NULL,'user',1795601823914635851);
CREATE TABLE labels (
	evaluation_id TEXT NOT NULL, 
	label FLOAT NOT NULL, 
	probability FLOAT, 
	expected TEXT, 
	comment TEXT, 
	time BIGINT NOT NULL, 
	PRIMARY KEY (evaluation_id)
);
INSERT INTO "labels" VALUES('cfcd208495d565ef-grounded',1.0,NULL,'On day 3.',NULL,1795601823906165591);
CREATE TABLE notices (
	alarm_id BIGINT NOT NULL, 
	receiver TEXT NOT NULL, 
	told INTEGER NOT NULL, 
	claimed BIGINT NOT NULL, 
	PRIMARY KEY (alarm_id, receiver)
);
CREATE TABLE picks (
	bucket BIGINT NOT NULL, 
	rule TEXT NOT NULL, 
	agent_name TEXT NOT NULL, 
	process TEXT NOT NULL, 
	runs BIGINT NOT NULL, 
	picked BIGINT NOT NULL, 
	expected FLOAT NOT NULL, 
	variance FLOAT NOT NULL, 
	represented FLOAT NOT NULL, 
	represented_variance FLOAT NOT NULL, 
	PRIMARY KEY (bucket, rule, agent_name, process)
);
CREATE TABLE rollups (
	width INTEGER NOT NULL, 
	bucket BIGINT NOT NULL, 
	slice_id BIGINT NOT NULL, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	missing BOOLEAN NOT NULL, 
	n BIGINT NOT NULL, 
	unknown BIGINT NOT NULL, 
	w FLOAT NOT NULL, 
	wx FLOAT NOT NULL, 
	wxx FLOAT NOT NULL, 
	ww FLOAT NOT NULL, 
	wwx FLOAT NOT NULL, 
	wwxx FLOAT NOT NULL, 
	w_max FLOAT NOT NULL, 
	x_min FLOAT, 
	x_max FLOAT, 
	cost FLOAT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	PRIMARY KEY (width, bucket, slice_id, status, reason)
);
INSERT INTO "rollups" VALUES(60,1790000400,1490262771811190587,'scored','',0,4,0,6.0,2.0,2.0,10.0,2.0,2.0,2.0,0.0,1.0,0.004,40,8);
INSERT INTO "rollups" VALUES(3600,1789999200,1490262771811190587,'scored','',0,4,0,6.0,2.0,2.0,10.0,2.0,2.0,2.0,0.0,1.0,0.004,40,8);
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	"key" BIGINT NOT NULL, 
	trace_id TEXT NOT NULL, 
	span_id TEXT NOT NULL, 
	conversation_id TEXT, 
	user_id TEXT, 
	agent_name TEXT NOT NULL, 
	agent_version TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	start_time BIGINT NOT NULL, 
	duration FLOAT, 
	error_type TEXT, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	recorded BIGINT NOT NULL, 
	content TEXT, 
	PRIMARY KEY (id), 
	UNIQUE ("key")
);
INSERT INTO "runs" VALUES(1,2968255338808904345,'cfcd208495d565ef66e7dff9f98764da','cfcd208495d565ef',NULL,'user-0','support','1','',1790000399000000000,1.0,NULL,100,20,1790000400000000000,'{"input":"Where is my order?","output":"It ships on day 0.","tool_calls":[{"name":"track","status":"ok","arguments":{"id":0},"result":{"day":3}}]}');
INSERT INTO "runs" VALUES(2,4416510512999219323,'c4ca4238a0b923820dcc509a6f75849b','c4ca4238a0b92382',NULL,'user-1','support','1','',1790000399000000000,1.0,NULL,100,20,1790000400000000000,'{"input":"Where is my order?","output":"It ships on day 1.","tool_calls":[{"name":"track","status":"ok","arguments":{"id":1},"result":{"day":3}}]}');
INSERT INTO "runs" VALUES(3,8348648214361683320,'c81e728d9d4c2f636f067f89cc14862c','c81e728d9d4c2f63',NULL,'user-2','support','1','',1790000399000000000,1.0,NULL,100,20,1790000400000000000,'{"input":"Where is my order?","output":"It ships on day 2.","tool_calls":[{"name":"track","status":"ok","arguments":{"id":2},"result":{"day":3}}]}');
INSERT INTO "runs" VALUES(4,6552365793442094138,'eccbc87e4b5ce2fe28308fd9f2a7baf3','eccbc87e4b5ce2fe',NULL,'user-3','support','1','',1790000399000000000,1.0,NULL,100,20,1790000400000000000,'{"input":"Where is my order?","output":"It ships on day 3.","tool_calls":[{"name":"track","status":"ok","arguments":{"id":3},"result":{"day":3}}]}');
CREATE TABLE settings (
	name VARCHAR NOT NULL, 
	value TEXT, 
	PRIMARY KEY (name)
);
INSERT INTO "settings" VALUES('schema','3');
CREATE TABLE slices (
	id BIGINT NOT NULL, 
	scorer_id TEXT NOT NULL, 
	scorer_version TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	scale FLOAT, 
	rule TEXT NOT NULL, 
	sampler TEXT NOT NULL, 
	agent_name TEXT NOT NULL, 
	agent_version TEXT NOT NULL, 
	service TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	judge_model TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "slices" VALUES(1490262771811190587,'grounded','a1','higher_is_better',1.0,'grounded','ratio','support','1','shop','','judge-1');
CREATE INDEX runs_by_time ON runs (recorded);
CREATE INDEX runs_by_user ON runs (user_id);
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX evaluations_by_time ON evaluations (slice_id, time);
CREATE INDEX evaluations_by_score ON evaluations (slice_id, x, time DESC);
CREATE INDEX evaluations_by_run ON evaluations (run_key);
CREATE INDEX alarms_by_monitor ON alarms (monitor, ended);
CREATE INDEX drawn_by_draw ON drawn (draw_id);
COMMIT;
